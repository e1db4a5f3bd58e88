// Package remotefiles stores which remote files rendered configs have, to find out whether nodes have to download any
// for a config.
//
// In: rendered configs. Out: whether one config has files that another one does not have. Never: a download, a write.
package remotefiles
