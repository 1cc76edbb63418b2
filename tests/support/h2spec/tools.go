//go:build tools

// Package tools keeps the program's package in go.mod.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
