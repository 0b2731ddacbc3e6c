//go:build tools

// Package helmv4 pins the Helm 4 that the chart is linted, rendered and installed with.
package helmv4

import _ "helm.sh/helm/v4/cmd/helm"
