package files

// Look does what Run does each time, and tells what Run would log.
func (d *Dir) Look() error { return d.look() }

// Look does what Run does each time, and tells what Run would log.
func (t *Tokens) Look() error { return t.look() }

// Write writes down what Run would.
func (t *Tokens) Write() { t.write() }

// LookEvery is the time between two looks.
const LookEvery = lookEvery
