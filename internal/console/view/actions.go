package view

import "net/url"

// Action is a link to the form of an action.
type Action struct {
	// Text is what the link says, such as `Pause…`.
	Text, Href string
	// Danger: the action stops something.
	Danger bool
}

// Actions are what a viewer can do on a page, and what the viewer did last.
type Actions struct {
	Links []Action
	// Done are the lines of a note about the last action; empty for none.
	Done []string
}

// Region draws the links; an empty region if there is neither a link nor a note.
func (a Actions) Region() Region { return draw("actions", "actions", a) }

// SourceActions are what a viewer can do with one GitSource.
type SourceActions struct {
	Name  string
	Links []Action
}

// ActionForm is the page on which a user confirms an action.
type ActionForm struct {
	// Path is where the form is sent to, and Back is the page of the object.
	Path, Back string
	// Effect says what the action does, and Facts what that means now.
	Effect string
	Facts  []string
	// Problem says why the last attempt did nothing; empty for none.
	Problem string
	Fields  []ActionField
	// Button is empty if there is nothing to do.
	Button string
	Danger bool
	// Token shows that the console wrote the form, for this session.
	Token string
	// State is what the form shows of the object, as a digest, which it sends back.
	State string
	// Command does the same on the command line.
	Command string
}

// ActionField is one field of a form: a text, or a choice if it has options.
type ActionField struct {
	Name, Label, Value, Hint string
	// Problem says why the value was not accepted; empty for none.
	Problem  string
	Required bool
	// Most is the highest number of characters.
	Most    int
	Options []ActionOption
}

// ActionOption is one value of a choice.
type ActionOption struct {
	Value, Text string
	Chosen      bool
}

// Regions draws the form.
func (f ActionForm) Regions() []Region { return []Region{draw("action-form", "action-form", f)} }

// PathOf returns the path of the page of a pool or a node; of a GitSource, the path below which its actions are.
func PathOf(kind, name string) string { return "/" + kind + "/" + url.PathEscape(name) }
