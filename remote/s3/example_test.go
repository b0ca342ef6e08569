package s3_test

import (
	"fmt"

	"github.com/shaledb/shale/remote/s3"
)

// A bucket is named by a URL, as on a command line. New connects to it; the credentials come from the
// environment, and never from the URL.
func ExampleParseURL() {
	config, err := s3.ParseURL("s3://s3.eu-central-1.amazonaws.com/backups/hosts?region=eu-central-1")
	fmt.Println(config.Endpoint, config.Bucket, config.Prefix, config.Region, err)
	_, err = s3.ParseURL("s3://name:password@s3.eu-central-1.amazonaws.com/backups")
	fmt.Println(err != nil)
	// Output:
	// s3.eu-central-1.amazonaws.com backups hosts eu-central-1 <nil>
	// true
}
