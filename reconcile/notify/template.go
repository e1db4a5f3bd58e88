package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Template is the parsed template of a Notification, from which the texts of messages are made.
type Template struct{ parsed *template.Template }

var errTooLong = fmt.Errorf("the text is longer than %d KiB", maxText>>10)

// maxText is in bytes.
const maxText = 16 << 10

// functions: the result of each is at most as long as its arguments, and none does I/O.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "upper", "lower", "json"}

// ParseTemplate reads a template; empty for the standard text. It refuses loops, nested templates, variables and
// functions other than and, or, not, eq, ne, lt, le, gt, ge, len, upper, lower and json, so that the time to execute it
// is proportional to its length.
func ParseTemplate(text string) (Template, error) {
	if text == "" {
		return Template{}, nil
	}
	t, err := template.New("message").Option("missingkey=error").Funcs(template.FuncMap{
		"upper": strings.ToUpper,
		"lower": strings.ToLower, "json": asJSON,
	}).Parse(text)
	if err != nil {
		return Template{}, fmt.Errorf("reading spec.template: %w", err)
	}
	if len(t.Templates()) > 1 {
		return Template{}, errors.New("reading spec.template: it defines another template; write all of it as one")
	}
	if t.Tree == nil {
		return Template{}, errors.New("reading spec.template: it is empty; remove the field")
	}
	if err := checkNode(t.Tree.Root); err != nil {
		return Template{}, fmt.Errorf("reading spec.template: %w", err)
	}
	if _, err := (Template{t}).Execute(Event{}); err != nil {
		return Template{}, err
	}
	return Template{t}, nil
}

func asJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	// Repeated calls of json double the length each time.
	if err == nil && len(raw) > maxText {
		err = errTooLong
	}
	return string(raw), err
}

// checkNode refuses what could grow beyond the template's length, in time or output.
func checkNode(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := checkNode(child); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode, *parse.FieldNode, *parse.DotNode, *parse.StringNode, *parse.NumberNode,
		*parse.BoolNode, *parse.NilNode:
		return nil
	case *parse.ActionNode:
		return checkNode(n.Pipe)
	case *parse.IfNode:
		return checkBranch(&n.BranchNode)
	case *parse.WithNode:
		return checkBranch(&n.BranchNode)
	case *parse.PipeNode:
		return checkPipe(n)
	case *parse.IdentifierNode:
		if !slices.Contains(functions, n.Ident) {
			return fmt.Errorf("it calls the function %s; allowed are %s", n.Ident, strings.Join(functions, ", "))
		}
		return nil
	default:
		return fmt.Errorf("%q is not allowed: write text, fields such as {{.Pool}}, if and with", n.String())
	}
}

func checkBranch(n *parse.BranchNode) error {
	return errors.Join(checkNode(n.Pipe), checkNode(n.List), checkNode(n.ElseList))
}

func checkPipe(n *parse.PipeNode) error {
	if len(n.Decl) > 0 {
		return fmt.Errorf("%q sets a variable, which is not allowed", n.String())
	}
	for _, c := range n.Cmds {
		for _, arg := range c.Args {
			if err := checkNode(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

// Execute returns the text of an event, in at most 16 KiB.
func (t Template) Execute(e Event) (string, error) {
	if t.parsed == nil {
		return e.line(), nil
	}
	e.Text = e.line()
	var b limited
	if err := t.parsed.Execute(&b, e); err != nil {
		return "", fmt.Errorf("executing spec.template: %w", err)
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
}

// limited refuses to become longer than maxText.
type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxText {
		return 0, errTooLong
	}
	return l.Builder.Write(p)
}
