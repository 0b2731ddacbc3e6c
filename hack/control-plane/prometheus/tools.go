//go:build tools

// Package prometheus pins the Prometheus that the end-to-end tests query, and the tool that checks its rules.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
