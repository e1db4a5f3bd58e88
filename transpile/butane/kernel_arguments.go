package butane

import (
	"strconv"
	"strings"
)

// checkKernelArguments refuses arguments that the daemon cannot set on a node, and arguments with an open quotation
// mark.
func (t *translator) checkKernelArguments() {
	if n := child(child(t.doc, "kernel_arguments"), "should_not_exist"); n != nil && len(n.Content) > 0 &&
		t.dialect.variant != "openshift" {
		t.fatal("$.kernel_arguments.should_not_exist", "kernel-arguments", "should_not_exist is not supported: a "+
			"node can remove only the kernel arguments that it added, not those of its image. Build an image "+
			"without them")
	}
	for _, list := range []string{"$.kernel_arguments.should_exist", "$.openshift.kernel_arguments"} {
		n := lookup(t.doc, list)
		if n == nil {
			continue
		}
		for i, c := range n.Content {
			if arg := text(c); strings.Count(arg, `"`)%2 != 0 {
				t.fatal(list+"."+strconv.Itoa(i), "kernel-arguments", "%s: the closing double quote is missing, so "+
					"the kernel would read all later arguments as part of this one; add it", arg)
			}
		}
	}
}
