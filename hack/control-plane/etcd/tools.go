//go:build tools

// Package etcd pins the store behind the end-to-end tests' API server.
package etcd

import _ "go.etcd.io/etcd/server/v3"
