package objects

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAFolderDoesNotGrowWithoutBound: a folder with too many packs, or with too many bytes, is emptied when it is
// opened.
func TestAFolderDoesNotGrowWithoutBound(t *testing.T) {
	for name, test := range map[string]struct {
		packs int
		size  int64
		left  int
	}{
		"few packs stay":          {packs: 3, size: 100, left: 6},
		"too many packs":          {packs: maxPacks + 1, size: 100},
		"packs of too many bytes": {packs: 2, size: maxBytes/2 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			packs := filepath.Join(dir, "objects", "pack")
			if err := os.MkdirAll(packs, 0o700); err != nil {
				t.Fatal(err)
			}
			for i := range test.packs {
				path := filepath.Join(packs, "pack-"+string(rune('a'+i%26))+string(rune('a'+i/26)))
				if err := os.WriteFile(path+".idx", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path+".pack", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(path+".pack", test.size); err != nil { // a sparse file
					t.Fatal(err)
				}
			}
			f, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if left, err := os.ReadDir(packs); err != nil || len(left) != test.left {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}
