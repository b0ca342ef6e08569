// Release makes a release of all modules of the repository, and the binaries of one.
//
//	go run . [-n] [-vet=false] [-repo DIR] [-o DIR] [-proxy DIR] tag v0.1.0
//	go run . [-repo DIR] [-o DIR] [-systems linux/amd64,...] binaries v0.1.0
//
// docs/RELEASES.md says what a release is. On the branch, modules require each other as v0.0.0 and
// find each other by replace lines, which hold nowhere else. So what is tagged is a commit of its own,
// next to the branch: without replace lines, and with the version in each requirement.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	dir := flag.String("repo", ".", "the `directory` of the repository")
	out := flag.String("o", "", "write notes and binaries to this `directory` (default dist/VERSION in the repository)")
	proxy := flag.String("proxy", "", "write the modules to this `directory`, as a module proxy has them")
	vet := flag.Bool("vet", true, "run go vet in each module")
	dry := flag.Bool("n", false, "do all of it but the tags")
	systems := flag.String("systems", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "build for these")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("want tag or binaries, and a version such as v0.1.0")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	top, err := filepath.Abs(*dir)
	if err != nil {
		log.Fatal(err)
	}
	version := flag.Arg(1)
	if *out == "" {
		*out = filepath.Join(top, "dist", version)
	}
	if err := os.MkdirAll(*out, 0o777); err != nil {
		log.Fatal(err)
	}
	switch flag.Arg(0) {
	case "tag":
		err = makeRelease(ctx, options{repo: repo{ctx, top}, version: version, out: *out, proxy: *proxy, dry: *dry, vet: *vet, log: os.Stdout})
	case "binaries":
		err = makeBinaries(ctx, repo{ctx, top}, version, *out, programs, strings.Split(*systems, ","))
	default:
		err = fmt.Errorf("there is no command %q: want tag or binaries", flag.Arg(0))
	}
	if err != nil {
		log.Fatal(err)
	}
}
