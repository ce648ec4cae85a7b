package db_test

import (
	"fmt"

	"github.com/actlog/actlog/agent/tool/db"
)

// The tools of a program that may read and change a database.
func ExampleTools() {
	all, err := db.Tools(db.Options{URL: "postgres://agent@localhost/shop", Write: true, Idempotency: true})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, each := range all {
		fmt.Println(each.Spec().Name, each.Spec().Policy.Approval)
	}
	// Output:
	// db.query false
	// db.schema false
	// db.execute true
}
