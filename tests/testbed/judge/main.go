// Judge says what tools make of Kubernetes objects, by the code that they use themselves.
//
//	judge kstatus      by kstatus, as Helm and Flux do
//	judge lua FILE     by a health check in Lua, run as Argo CD runs it
//
// It reads a JSON array of objects and writes one of verdicts.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// A verdict on one object, in the words of the tool.
type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var judge func(*unstructured.Unstructured) (verdict, error)
	switch {
	case len(args) == 1 && args[0] == "kstatus":
		judge = byKstatus
	case len(args) == 2 && args[0] == "lua":
		script, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		judge = func(object *unstructured.Unstructured) (verdict, error) { return byLua(object, string(script)) }
	default:
		return fmt.Errorf("no such way to judge: %q", args)
	}
	var documents []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&documents); err != nil {
		return err
	}
	verdicts := make([]verdict, 0, len(documents))
	for _, document := range documents {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(document); err != nil {
			return err
		}
		given, err := judge(&object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		verdicts = append(verdicts, given)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func byKstatus(object *unstructured.Unstructured) (verdict, error) {
	result, err := status.Compute(object)
	if err != nil {
		return verdict{}, err
	}
	return verdict{Status: result.Status.String(), Message: result.Message}, nil
}
