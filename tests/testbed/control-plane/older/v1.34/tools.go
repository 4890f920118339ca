//go:build tools

// Package older pins an older API server for the test bench. It is never compiled: it only makes `go mod tidy` keep what the
// build needs in go.mod and go.sum.
package older

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
