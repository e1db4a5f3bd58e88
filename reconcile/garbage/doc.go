// Package garbage is the controller that deletes unused rendered configs, and creates deleted rendered configs again
// if they are in use.
//
// In: MachineConfigs, MachineConfigPools, Nodes, GitSources. Out: deleted and created rendered configs. Never: a write
// to a fragment.
package garbage
