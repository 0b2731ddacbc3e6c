//go:build tools

// Package kubernetes pins the Kubernetes servers that the end-to-end tests run against.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
