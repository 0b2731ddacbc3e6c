//go:build tools

// Package helmv3 pins the Helm 3 that the chart is linted, rendered and installed with.
package helmv3

import _ "helm.sh/helm/v3/cmd/helm"
