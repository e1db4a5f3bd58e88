package rpcvmx

// Config is empty.
type Config struct{}

// NewConfig returns it.
func NewConfig() *Config { return &Config{} }

// String knows none, and returns what is given.
func (*Config) String(_, without string) (string, error) { return without, nil }
