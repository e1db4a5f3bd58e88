package butane

import (
	"slices"
	"strings"
)

// choose finds the dialect of the document by its variant and version. choose returns false, with a finding, if there
// is none.
func (t *translator) choose() bool {
	variant, version := scalar(t.doc, "variant"), scalar(t.doc, "version")
	var ok bool
	if t.dialect, ok = find(variant, version); ok {
		return true
	}
	switch _, known := find(variant, version+".0"); {
	case variant == "":
		t.fatal("$", "variant", "the document has no variant: begin it with `variant: fcos` and `version: 1.6.0`; %s",
			versions(""))
	case variant == "rhcos":
		t.fatal("$.variant", "variant", "variant rhcos was removed from Butane: write `variant: openshift` and "+
			"`version: 4.19.0`, with metadata.name and the label %s", roleLabel)
	case version == "":
		t.fatal("$.variant", "variant", "the document has no version; %s", versions(variant))
	case known:
		t.fatal("$.version", "variant", "version %s is not whole: write `version: %s.0`", version, version)
	case strings.HasSuffix(version, "-experimental"):
		t.fatal("$.version", "variant", "version %s of %s is experimental and not supported, as its meaning can "+
			"change from one release of Butane to the next; %s", version, variant, versions(variant))
	case slices.ContainsFunc(dialects, func(d dialect) bool { return d.variant == variant }):
		t.fatal("$.version", "variant", "version %s of %s is not supported; %s", version, variant, versions(variant))
	default:
		t.fatal("$.variant", "variant", "variant %s is not supported; %s", variant, versions(variant))
	}
	return false
}

func find(variant, version string) (dialect, bool) {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.variant == variant && d.version == version })
	if i < 0 {
		return dialect{}, false
	}
	return dialects[i], true
}

// versions lists the versions of a variant for a message. For an unknown variant, versions lists all variants.
func versions(variant string) string {
	var mine, variants []string
	for _, d := range dialects {
		if d.variant == variant {
			mine = append(mine, d.version)
		}
		if !slices.Contains(variants, d.variant) {
			variants = append(variants, d.variant)
		}
	}
	if mine == nil {
		return "variants are " + strings.Join(variants, ", ")
	}
	return "versions of " + variant + " are " + strings.Join(mine, ", ")
}
