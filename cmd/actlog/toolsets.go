package main

// The toolsets that register themselves. A program that uses agent links none of them unless it imports it.
import (
	_ "github.com/actlog/actlog/agent/tool/code" // parses code by WebAssembly
)
