module small/nested

go 1.26.0
