//go:build tools

// Package helm pins Helm for the tests of the chart. It is never compiled: it only makes `go mod tidy` keep what the
// build needs in go.mod and go.sum.
package helm

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
