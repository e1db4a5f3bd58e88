package v1alpha1

const (
	// NodeContentPath, followed by the hash of a large file, is where a node reads the bytes of that file. The node
	// identifies itself as for NodeConfigPath, and a config that it may run names the file.
	NodeContentPath = "/node/content/"
	// ContentPath, followed by the hash of a large file, is where a new machine reads the bytes of that file, with the
	// grant in its config.
	ContentPath = "/content/"
	// ContentArtifact follows ContentPath for a file in an OCI registry, before REGISTRY/NAME@sha256:HEX.
	ContentArtifact = "oci/"
	// ContentGrantScheme precedes the grant in the header Authorization.
	ContentGrantScheme = "Bunsen-Content "
	// ContentGrantQuery is the part of the query with the grant, for versions of Ignition without headers.
	ContentGrantQuery = "grant"
)
