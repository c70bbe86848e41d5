try:
    import io
    import pandas
except ImportError:
    pass
else:
    table = pandas.read_csv(io.StringIO("name,value\na,1\nb,2.5\na,3\n"))
    table["double"] = table["value"] * 2
    print(table.describe(), table.groupby("name").mean(), table.to_csv(), sep="\n")
