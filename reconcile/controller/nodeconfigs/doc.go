// Package nodeconfigs stores which config each node of a pool runs, for the configs of pools whose nodes have configs
// of their own.
//
// In: events of rendered configs. Out: v1alpha1.NodeConfigs by the name of a pool's config. Never: the content of a
// config, a write.
package nodeconfigs
