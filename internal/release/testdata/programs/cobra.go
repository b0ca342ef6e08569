package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func main() { fmt.Println((&cobra.Command{Use: "Oslo"}).Name(), nil) }
