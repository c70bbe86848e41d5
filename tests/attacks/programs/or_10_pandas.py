# Tables: reading, joining, grouping, time series, writing.
import io
import numpy as np
import pandas as pd

rows = pd.DataFrame({"city": list("abc") * 1000, "n": range(3000), "x": np.linspace(0, 1, 3000)})
grouped = rows.groupby("city").agg(total=("n", "sum"), mean=("x", "mean"))
assert grouped.total.tolist() == [1498500, 1499500, 1500500]
text = rows.to_csv(index=False)
assert pd.read_csv(io.StringIO(text)).equals(pd.read_csv(io.StringIO(text), engine="python"))
joined = rows.merge(pd.DataFrame({"city": ["a", "b"], "zone": ["n", "s"]}), on="city", how="left")
assert joined.zone.isna().sum() == 1000
pivot = rows.assign(half=rows.n % 2).pivot_table(index="city", columns="half", values="x", aggfunc="count")
assert pivot.to_numpy().tolist() == [[500, 500]] * 3
series = pd.Series(range(48), index=pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Berlin"))
assert series.resample("D").count().tolist() == [24, 23, 1]
rows.to_json("/tmp/rows.json", orient="records")
assert pd.read_json("/tmp/rows.json").shape == (3000, 3)
rows.to_pickle("/tmp/rows.pickle")
assert pd.read_pickle("/tmp/rows.pickle").equals(rows) and rows.rolling(10, on="n").x.mean().notna().sum() == 2991
assert rows.query("n < 10 and city == 'a'").n.tolist() == [0, 3, 6, 9]
print("done")
