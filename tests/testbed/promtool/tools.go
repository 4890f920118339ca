//go:build tools

// Package promtool pins Prometheus' promtool for the tests of metrics and alerts. It is never compiled: it only makes
// `go mod tidy` keep what the build needs in go.mod and go.sum.
package promtool

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
