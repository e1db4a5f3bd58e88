// Package chart tests the Helm chart that `make chart` writes, with Helm's own loader and template engine.
//
// In: the chart from tools/release, values. Out: the objects that Helm would install, compared with those of config/.
// Never: a cluster.
package chart
