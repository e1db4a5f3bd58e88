package butane

import (
	"strconv"
	"strings"
)

// kargs refuses what no running node can do, and what no kernel takes as it was meant.
func (t *translator) kargs() {
	if n := child(child(t.doc, "kernel_arguments"), "should_not_exist"); n != nil && len(n.Content) > 0 && t.dialect.variant != "openshift" {
		t.fatal("$.kernel_arguments.should_not_exist", "kernel-arguments", "should_not_exist is not supported: a node can add kernel arguments and remove those it added, but not those of its image; build an image without them")
	}
	for _, list := range []string{"$.kernel_arguments.should_exist", "$.openshift.kernel_arguments"} {
		n := lookup(t.doc, list)
		if n == nil {
			continue
		}
		for i, c := range n.Content {
			if arg := text(c); strings.Count(arg, `"`)%2 != 0 {
				t.fatal(list+"."+strconv.Itoa(i), "kernel-arguments", "%s: a double quote is opened and not closed; close it, as the kernel would take all arguments behind it for a part of this one", arg)
			}
		}
	}
}
