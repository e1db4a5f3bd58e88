package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source/store"
)

// cacheVariable names a directory for results of earlier runs; "off" keeps none.
const cacheVariable = "BUNSEN_CACHE"

// remembering renders with the memory of earlier runs of this very program, where there is a place for that.
func remembering(d render.Defaults) *review.Renderings {
	r := &review.Renderings{Defaults: d}
	dir := os.Getenv(cacheVariable)
	if dir == "off" {
		return r
	}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return r
		}
		dir = filepath.Join(cache, "bunsen")
	}
	shelf, err := store.OpenShelf(dir, build(), time.Now())
	if err != nil { // it is for speed only
		return r
	}
	r.Transpiler.Shelf = shelf
	return r
}

// build tells this program from every other build of it, released or not.
func build() string {
	id := version
	if self, err := os.Executable(); err == nil {
		if info, err := os.Stat(self); err == nil {
			id += info.ModTime().UTC().Format(time.RFC3339Nano) + " " + self
		}
	}
	return id
}
