//go:build tools

// Package prometheus pins the Prometheus that the end-to-end tests query.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/prometheus"
