package review

// WithReaders adds the changes of who can read the secrets.
func (c Comparison) WithReaders(changes Readers) Comparison {
	c.Readers = changes
	return c
}
