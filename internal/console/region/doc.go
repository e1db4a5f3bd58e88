// Package region finds the parts of a page that changed, so that a browser replaces only the changed parts.
//
// In: two states of a page, as trees of regions. Out: the regions to replace. Never: the content of a page.
package region
