package main

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// bill returns the CycloneDX bill of materials of a binary. The bill has a time only if epoch is set
// (SOURCE_DATE_EPOCH, in seconds), and it never has a random serial number. So the same sources give the same bytes.
func (j *judge) bill(name, version, epoch string, modules []linked.Module) ([]byte, error) {
	bom := cdx.NewBOM()
	own := component("github.com/bunsen-os/bunsen", version)
	own.Type, own.Name = cdx.ComponentTypeApplication, name
	own.BOMRef, own.PackageURL = own.PackageURL+"#"+name, own.PackageURL+"#"+name
	own.Licenses = licencesOf([]string{"Apache-2.0"})
	bom.Metadata = &cdx.Metadata{Component: &own}
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
		}
		bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	var components []cdx.Component
	var refs []string
	for _, m := range modules {
		licences, err := j.licences(m)
		if err != nil {
			return nil, fmt.Errorf("writing the bill of materials of %s: %w", name, err)
		}
		c := component(m.Path, m.Version)
		c.Licenses = licencesOf(licences)
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: own.BOMRef, Dependencies: &refs}}
	bom.Compositions = &[]cdx.Composition{{
		Aggregate:  cdx.CompositionAggregateComplete,
		Assemblies: &[]cdx.BOMReference{cdx.BOMReference(own.BOMRef)},
	}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the bill of materials of %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// component describes a Go module with its package URL.
func component(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + url.PathEscape(version)
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl,
		Scope: cdx.ScopeRequired,
	}
}

// licencesOf returns only SPDX identifiers. It leaves out grants that a module has besides its licence.
func licencesOf(ids []string) *cdx.Licenses {
	var all cdx.Licenses
	for _, id := range slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return strings.HasSuffix(id, "-grant")
	}) {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all
}
