package download

// ArtifactAnswer is the head of a server's answer with a file.
type ArtifactAnswer struct {
	// Status is the status of HTTP.
	Status int
	// Length is the size of the body; -1 if it is unknown.
	Length int64
	// Range is the header Content-Range, and Validator a strong ETag or the header Last-Modified.
	Range, Validator string
	// Layer is the layer of an artifact that the body is from; zero for any other file.
	Layer Layer
}
