// Package svgtest takes drawings apart, for tests.
package svgtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
)

// Parse returns the texts of a drawing, and how many elements of each name it has. It
// fails the test if the drawing is not well-formed.
func Parse[T ~string | ~[]byte](t testing.TB, drawing T) (texts []string, elements map[string]int) {
	t.Helper()
	elements = map[string]int{}
	d := xml.NewDecoder(bytes.NewReader([]byte(drawing)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, elements
		}
		if err != nil {
			t.Fatalf("%v in\n%.2000s", err, string(drawing))
		}
		switch x := token.(type) {
		case xml.StartElement:
			elements[x.Name.Local]++
		case xml.CharData:
			texts = append(texts, string(x))
		}
	}
}
