package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The binaries of a release are those of its tag, whatever the branch has become. They know their
// version, and come with checksums that hold and a list of their modules.
func TestBinaries(t *testing.T) {
	r, out := smallRepo(t, nil), t.TempDir()
	if err := makeRelease(t.Context(), options{repo: r, version: "v0.1.0", out: out, log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "shale.go"), []byte("package shale\n\nconst City = \"Bergen\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	gitOut(t, r, "commit", "-a", "-m", "another city")
	here := runtime.GOOS + "/" + runtime.GOARCH
	if err := makeBinaries(t.Context(), r, "v0.1.0", out, []string{"cmd"}, []string{here}); err != nil {
		t.Fatal(err)
	}
	name := "cmd-v0.1.0-" + strings.ReplaceAll(here, "/", "-")
	if got, err := exec.Command(filepath.Join(out, name)).CombinedOutput(); err != nil || string(got) != "Oslo\n" {
		t.Errorf("the binary printed %q, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS")); err != nil || !strings.HasSuffix(string(text), "  "+name+"\n") {
		t.Errorf("SHA256SUMS: %q, %v", text, err)
	}
	check := exec.Command("sha256sum", "--check", "SHA256SUMS")
	check.Dir = out
	if _, err := exec.LookPath("sha256sum"); err == nil {
		if text, err := check.CombinedOutput(); err != nil {
			t.Errorf("sha256sum: %v\n%s", err, text)
		}
	}
	checkMaterials(t, filepath.Join(out, "shale-v0.1.0.cdx.json"), name)
	if err := makeBinaries(t.Context(), r, "v0.2.0", out, []string{"cmd"}, []string{here}); err == nil {
		t.Error("binaries of a release that was never made")
	}
}

// checkMaterials checks the list of what one binary consists of: our library, and the standard library of this Go.
func checkMaterials(t *testing.T, file, binary string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type component struct {
		Ref           string `json:"bom-ref"`
		Name, Version string
		Properties    []struct{ Name, Value string }
	}
	var bom struct {
		BOMFormat    string
		Components   []component
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" || len(bom.Dependencies) != 1 {
		t.Fatalf("%v, the list of modules is\n%s", err, text)
	}
	components := make(map[string]component)
	for _, c := range bom.Components {
		components[c.Ref] = c
	}
	d := bom.Dependencies[0]
	if len(components) != 3 || len(bom.Components) != 3 || len(d.DependsOn) != 2 || d.Ref != binary || components[binary].Name != binary {
		t.Fatalf("the list of modules is\n%s", text)
	}
	library, standard := components[d.DependsOn[0]], components[d.DependsOn[1]]
	if library.Name != ours || library.Version != "v0.1.0" || !strings.HasPrefix(library.Properties[0].Value, "h1:") {
		t.Errorf("the library is %+v", library)
	}
	if standard.Name != "stdlib" || "go"+standard.Version != runtime.Version() {
		t.Errorf("the standard library is %+v", standard)
	}
}
