// Package chart tests the Helm chart that `make chart` writes, with Helm's own code: its template engine alone, and
// install, upgrade and uninstall on a real API server.
//
// In: the chart from tools/release, values, the programs in KUBEBUILDER_ASSETS. Out: the objects that Helm would
// install, compared with those of config/, and what an API server makes of them. Never: a kubelet.
package chart
