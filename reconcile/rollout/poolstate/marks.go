package poolstate

// Marks are the writes to nodes that change no config.
type Marks struct {
	// Announce has the nodes whose NextConfigAnnotation changes.
	Announce []Announcement
	// Label are the nodes that get labels, sorted by name.
	Label []Label
	// Taint and Untaint are the nodes that get or lose the UpdateInProgress taint, sorted by name. Nodes that are
	// assigned a config, and those of Announce, are in neither list.
	Taint, Untaint []string
	// DropImage are the nodes that lose the annotations of a stray image, sorted by name.
	DropImage []string
}

// Announcement tells one node which config it gets next, so that it downloads the content of the config.
type Announcement struct {
	// Node is the node to write. Next is the new value of NextConfigAnnotation; empty if the node has nothing to
	// download.
	Node, Next string
	// If Taint is true, the write also adds the UpdateInProgress taint. If Untaint is true, it removes the taint.
	Taint, Untaint bool
}

// Label puts a node into the custom pool for which the server admitted its machine.
type Label struct {
	// Node is the node to write.
	Node string
	// Labels are the labels to set. The same write sets CustomPoolLabelsAppliedAnnotation, so that the node gets the
	// labels only once.
	Labels map[string]string
	// Attest is true if the controller first reads the server's records and writes AttestedPoolAnnotation.
	Attest bool
}
