package secret

// Rules returns the table of all rules.
func Rules() []Rule { return rules }
