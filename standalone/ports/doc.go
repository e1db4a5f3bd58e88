// Package ports tells before anything starts whether the loopback ports are
// free, and who has the ones that are not.
//
// In: the ports, each with its purpose and the flag that changes it.
// Out: a ConflictError that names every taken port and, where the kernel tells, its holder.
// Never: keeps a port open, or speaks to what listens on one.
package ports
