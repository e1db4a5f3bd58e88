// Package signals waits for what starts the agent's next sync, and delays syncs after frequent changes. It also
// measures how long the agent waits for the controller and for the API server.
//
// In: channels, a limit. Out: whether the Node changed. Never: a read of the cluster or of the machine.
package signals
