package s3

import "testing"

// A bucket below another one has a longer path, or a longer prefix on the same server.
func TestPlace_Below(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"backups", "backups/a-1/state-2"},
		{"file:///srv/backups", "/srv/backups/a-1/state-2"},
		{"s3://s3.example.org/bucket", "s3://s3.example.org/bucket/a-1/state-2"},
		{"s3+http://localhost:7070/bucket/x/y?region=r", "s3+http://localhost:7070/bucket/x/y/a-1/state-2?region=r"},
	} {
		p, err := ParsePlace(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		got := p.Below("a-1", "state-2").String()
		if got != test.want {
			t.Errorf("below %s: %s, want %s", test.text, got, test.want)
		}
		if again, err := ParsePlace(got); err != nil || again.String() != got {
			t.Errorf("%s is read again as %s, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "file://", "ftp://x/y", "s3://user:secret@host/bucket"} {
		if _, err := ParsePlace(text); err == nil {
			t.Errorf("%q is taken for a bucket", text)
		}
	}
}
