package main

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Argo CD gives a script so long.
const patience = time.Second

// Argo CD opens no more than these, and a reduced `os`: there is no `string`.
var libraries = []struct {
	name string
	open lua.LGFunction
}{
	{lua.LoadLibName, lua.OpenPackage},
	{lua.BaseLibName, lua.OpenBase},
	{lua.TabLibName, lua.OpenTable},
}

// byLua runs a script with the object in the global obj. The script returns a table with status and message.
func byLua(object *unstructured.Unstructured, script string) (verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range libraries {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			return verdict{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object.Object))
	if err := state.DoString(script); err != nil {
		return verdict{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return verdict{}, fmt.Errorf("the script returns %s, not a table", state.Get(-1).Type())
	}
	health := verdict{Status: text(table, "status"), Message: text(table, "message")}
	switch health.Status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
		return health, nil
	default:
		return verdict{}, fmt.Errorf("Argo CD knows no status %q", health.Status)
	}
}

func text(table *lua.LTable, field string) string {
	value, ok := table.RawGetString(field).(lua.LString)
	if !ok {
		return ""
	}
	return string(value)
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for name, field := range value {
			table.RawSetString(name, toLua(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
