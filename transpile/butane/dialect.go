package butane

import (
	"reflect"
	"slices"
	"strings"

	fcos1_0 "github.com/coreos/butane/config/fcos/v1_0"
	fcos1_1 "github.com/coreos/butane/config/fcos/v1_1"

	fcos1_2 "github.com/coreos/butane/config/fcos/v1_2"

	fcos1_3 "github.com/coreos/butane/config/fcos/v1_3"

	fcos1_4 "github.com/coreos/butane/config/fcos/v1_4"

	fcos1_5 "github.com/coreos/butane/config/fcos/v1_5"

	fcos1_6 "github.com/coreos/butane/config/fcos/v1_6"

	fcos1_7 "github.com/coreos/butane/config/fcos/v1_7"

	fiot1_0 "github.com/coreos/butane/config/fiot/v1_0"

	flatcar1_0 "github.com/coreos/butane/config/flatcar/v1_0"

	flatcar1_1 "github.com/coreos/butane/config/flatcar/v1_1"

	openshift4_10 "github.com/coreos/butane/config/openshift/v4_10"

	openshift4_11 "github.com/coreos/butane/config/openshift/v4_11"

	openshift4_12 "github.com/coreos/butane/config/openshift/v4_12"

	openshift4_13 "github.com/coreos/butane/config/openshift/v4_13"

	openshift4_14 "github.com/coreos/butane/config/openshift/v4_14"

	openshift4_15 "github.com/coreos/butane/config/openshift/v4_15"

	openshift4_16 "github.com/coreos/butane/config/openshift/v4_16"

	openshift4_17 "github.com/coreos/butane/config/openshift/v4_17"

	openshift4_18 "github.com/coreos/butane/config/openshift/v4_18"

	openshift4_19 "github.com/coreos/butane/config/openshift/v4_19"

	openshift4_20 "github.com/coreos/butane/config/openshift/v4_20"

	openshift4_21 "github.com/coreos/butane/config/openshift/v4_21"

	openshift4_22 "github.com/coreos/butane/config/openshift/v4_22"

	openshift4_8 "github.com/coreos/butane/config/openshift/v4_8"

	openshift4_9 "github.com/coreos/butane/config/openshift/v4_9"

	r4e1_0 "github.com/coreos/butane/config/r4e/v1_0"

	r4e1_1 "github.com/coreos/butane/config/r4e/v1_1"

	cutil "github.com/coreos/butane/config/util"
)

// dialect is one supported variant and version of Butane.
type dialect struct {
	variant, version string
	// config returns an empty document.
	config func() cutil.Config
	// method is the name of the Butane method that translates a document and returns the origin of each part. Bunsen
	// calls the method by name, as Butane itself does, because no interface contains it.
	method string
}

// dialects are all stable versions of all variants. The list omits experimental versions, because Butane may change
// them.
var dialects = []dialect{
	{"fcos", "1.0.0", func() cutil.Config { return &fcos1_0.Config{} }, "ToIgn3_0Unvalidated"},
	{"fcos", "1.1.0", func() cutil.Config { return &fcos1_1.Config{} }, "ToIgn3_1Unvalidated"},
	{"fcos", "1.2.0", func() cutil.Config { return &fcos1_2.Config{} }, "ToIgn3_2Unvalidated"},
	{"fcos", "1.3.0", func() cutil.Config { return &fcos1_3.Config{} }, "ToIgn3_2Unvalidated"},
	{"fcos", "1.4.0", func() cutil.Config { return &fcos1_4.Config{} }, "ToIgn3_3Unvalidated"},
	{"fcos", "1.5.0", func() cutil.Config { return &fcos1_5.Config{} }, "ToIgn3_4Unvalidated"},
	{"fcos", "1.6.0", func() cutil.Config { return &fcos1_6.Config{} }, "ToIgn3_5Unvalidated"},
	{"fcos", "1.7.0", func() cutil.Config { return &fcos1_7.Config{} }, "ToIgn3_6Unvalidated"},
	{"flatcar", "1.0.0", func() cutil.Config { return &flatcar1_0.Config{} }, "ToIgn3_3Unvalidated"},
	{"flatcar", "1.1.0", func() cutil.Config { return &flatcar1_1.Config{} }, "ToIgn3_4Unvalidated"},
	{"r4e", "1.0.0", func() cutil.Config { return &r4e1_0.Config{} }, "ToIgn3_3Unvalidated"},
	{"r4e", "1.1.0", func() cutil.Config { return &r4e1_1.Config{} }, "ToIgn3_4Unvalidated"},
	{"fiot", "1.0.0", func() cutil.Config { return &fiot1_0.Config{} }, "ToIgn3_4Unvalidated"},
	{"openshift", "4.8.0", func() cutil.Config { return &openshift4_8.Config{} }, "ToMachineConfig4_8Unvalidated"},
	{"openshift", "4.9.0", func() cutil.Config { return &openshift4_9.Config{} }, "ToMachineConfig4_9Unvalidated"},
	{"openshift", "4.10.0", func() cutil.Config { return &openshift4_10.Config{} }, "ToMachineConfig4_10Unvalidated"},
	{"openshift", "4.11.0", func() cutil.Config { return &openshift4_11.Config{} }, "ToMachineConfig4_11Unvalidated"},
	{"openshift", "4.12.0", func() cutil.Config { return &openshift4_12.Config{} }, "ToMachineConfig4_12Unvalidated"},
	{"openshift", "4.13.0", func() cutil.Config { return &openshift4_13.Config{} }, "ToMachineConfig4_13Unvalidated"},
	{"openshift", "4.14.0", func() cutil.Config { return &openshift4_14.Config{} }, "ToMachineConfig4_14Unvalidated"},
	{"openshift", "4.15.0", func() cutil.Config { return &openshift4_15.Config{} }, "ToMachineConfig4_15Unvalidated"},
	{"openshift", "4.16.0", func() cutil.Config { return &openshift4_16.Config{} }, "ToMachineConfig4_16Unvalidated"},
	{"openshift", "4.17.0", func() cutil.Config { return &openshift4_17.Config{} }, "ToMachineConfig4_17Unvalidated"},
	{"openshift", "4.18.0", func() cutil.Config { return &openshift4_18.Config{} }, "ToMachineConfig4_18Unvalidated"},
	{"openshift", "4.19.0", func() cutil.Config { return &openshift4_19.Config{} }, "ToMachineConfig4_19Unvalidated"},
	{"openshift", "4.20.0", func() cutil.Config { return &openshift4_20.Config{} }, "ToMachineConfig4_20Unvalidated"},
	{"openshift", "4.21.0", func() cutil.Config { return &openshift4_21.Config{} }, "ToMachineConfig4_21Unvalidated"},
	{"openshift", "4.22.0", func() cutil.Config { return &openshift4_22.Config{} }, "ToMachineConfig4_22Unvalidated"},
}

// Dialect is a variant and a version of Butane, for programs that describe documents.
type Dialect struct {
	Variant, Version string
	// Type is the struct of a whole document. The tag `yaml` of a field has its key.
	Type reflect.Type
}

// Dialects lists all supported variants and versions, the versions of a variant from the oldest on.
func Dialects() []Dialect {
	out := make([]Dialect, len(dialects))
	for i, d := range dialects {
		out[i] = Dialect{d.variant, d.version, reflect.TypeOf(d.config()).Elem()}
	}
	return out
}

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
