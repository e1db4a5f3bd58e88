package main

import (
	"fmt"
	"os"

	"github.com/bunsen-os/bunsen/test/arch"
)

func main() {
	repo, err := arch.Load(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	arch.Figures(os.Stdout, repo)
}
