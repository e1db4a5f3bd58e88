package files

// Reload does what Run does after each interval, and returns what Run logs.
func (d *Dir) Reload() error { return d.reload() }

// Reload does what Run does after each interval, and returns what Run logs.
func (t *Tokens) Reload() error { return t.reload() }

// Write writes what Run writes.
func (t *Tokens) Write() { t.write() }

// PollInterval is the time between two reads.
const PollInterval = pollInterval
