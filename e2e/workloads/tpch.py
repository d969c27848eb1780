"""Workload 21: the 22 queries of TPC-H at scale 0.1, on the volume and on a local disk; every answer must be equal.

The queries follow the specification's business questions and validation parameters. Correlated subqueries are written as joins, and every
result has a total order, so that answers can be compared as text.
"""

import os
import subprocess
import sys

from harness import check, check_true, workload

TABLES = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "(ps_partkey, ps_suppkey)",
    "orders": "(o_orderdate, o_orderkey)",
    "lineitem": "(l_shipdate, l_orderkey, l_linenumber)",
}

QUERIES = [
    # 1: pricing summary
    """SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count()
    FROM lineitem WHERE l_shipdate <= toDate('1998-12-01') - 90 GROUP BY 1, 2 ORDER BY 1, 2""",
    # 2: minimum cost supplier
    """WITH offers AS (SELECT ps_partkey, ps_supplycost, s_acctbal, s_name, n_name, s_address, s_phone, s_comment
      FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
      JOIN region ON r_regionkey = n_regionkey WHERE r_name = 'EUROPE'),
    cheapest AS (SELECT ps_partkey AS partkey, min(ps_supplycost) AS cost FROM offers GROUP BY ps_partkey)
    SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
    FROM offers JOIN cheapest ON ps_partkey = partkey JOIN part ON p_partkey = partkey
    WHERE ps_supplycost = cost AND p_size = 15 AND p_type LIKE '%BRASS'
    ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    # 3: shipping priority
    """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
    FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
    WHERE c_mktsegment = 'BUILDING' AND o_orderdate < '1995-03-15' AND l_shipdate > '1995-03-15'
    GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    # 4: order priority checking
    """SELECT o_orderpriority, count() FROM orders
    WHERE o_orderdate >= '1993-07-01' AND o_orderdate < '1993-10-01'
      AND o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_commitdate < l_receiptdate)
    GROUP BY 1 ORDER BY 1""",
    # 5: local supplier volume
    """SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
    FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
    JOIN supplier ON l_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
    WHERE c_nationkey = s_nationkey AND r_name = 'ASIA' AND o_orderdate >= '1994-01-01' AND o_orderdate < '1995-01-01'
    GROUP BY n_name ORDER BY revenue DESC""",
    # 6: forecasting revenue change
    """SELECT sum(l_extendedprice * l_discount) FROM lineitem
    WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    # 7: volume shipping
    """SELECT n1.n_name AS supplier_nation, n2.n_name AS customer_nation, toYear(l_shipdate) AS year,
    sum(l_extendedprice * (1 - l_discount))
    FROM supplier JOIN lineitem ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey
    JOIN customer ON c_custkey = o_custkey JOIN nation AS n1 ON s_nationkey = n1.n_nationkey
    JOIN nation AS n2 ON c_nationkey = n2.n_nationkey
    WHERE ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
      AND l_shipdate BETWEEN '1995-01-01' AND '1996-12-31'
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    # 8: national market share; a quotient of exact sums
    """SELECT toYear(o_orderdate) AS year, sumIf(l_extendedprice * (1 - l_discount), n2.n_name = 'BRAZIL') AS brazil,
    sum(l_extendedprice * (1 - l_discount)) AS whole
    FROM part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
    JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
    JOIN nation AS n1 ON c_nationkey = n1.n_nationkey JOIN region ON n1.n_regionkey = r_regionkey
    JOIN nation AS n2 ON s_nationkey = n2.n_nationkey
    WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN '1995-01-01' AND '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL'
    GROUP BY 1 ORDER BY 1""",
    # 9: product type profit
    """SELECT n_name, toYear(o_orderdate) AS year, sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
    FROM part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
    JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey JOIN orders ON o_orderkey = l_orderkey
    JOIN nation ON s_nationkey = n_nationkey WHERE p_name LIKE '%green%' GROUP BY 1, 2 ORDER BY 1, 2 DESC""",
    # 10: returned items
    """SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
    FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey JOIN nation ON c_nationkey = n_nationkey
    WHERE o_orderdate >= '1993-10-01' AND o_orderdate < '1994-01-01' AND l_returnflag = 'R'
    GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY revenue DESC, c_custkey LIMIT 20""",
    # 11: important stock
    """WITH stock AS (SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp
      JOIN supplier ON ps_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey WHERE n_name = 'GERMANY' GROUP BY ps_partkey)
    SELECT ps_partkey, value FROM stock WHERE value * 1000 > (SELECT sum(value) FROM stock) ORDER BY value DESC, ps_partkey""",
    # 12: shipping modes and order priority
    """SELECT l_shipmode, countIf(o_orderpriority IN ('1-URGENT', '2-HIGH')), countIf(o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
    FROM orders JOIN lineitem ON o_orderkey = l_orderkey
    WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
      AND l_receiptdate >= '1994-01-01' AND l_receiptdate < '1995-01-01' GROUP BY 1 ORDER BY 1""",
    # 13: customer distribution
    """SELECT orders_of_one, count() AS customers FROM (
      SELECT c_custkey, countIf(o_orderkey != 0) AS orders_of_one FROM customer
      LEFT JOIN (SELECT * FROM orders WHERE o_comment NOT LIKE '%special%requests%') AS o ON c_custkey = o.o_custkey GROUP BY c_custkey)
    GROUP BY orders_of_one ORDER BY customers DESC, orders_of_one DESC""",
    # 14: promotion effect, as the two sums
    """SELECT sumIf(l_extendedprice * (1 - l_discount), p_type LIKE 'PROMO%'), sum(l_extendedprice * (1 - l_discount))
    FROM lineitem JOIN part ON l_partkey = p_partkey WHERE l_shipdate >= '1995-09-01' AND l_shipdate < '1995-10-01'""",
    # 15: top supplier
    """WITH revenue AS (SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total FROM lineitem
      WHERE l_shipdate >= '1996-01-01' AND l_shipdate < '1996-04-01' GROUP BY l_suppkey)
    SELECT s_suppkey, s_name, s_address, s_phone, total FROM supplier JOIN revenue ON s_suppkey = l_suppkey
    WHERE total = (SELECT max(total) FROM revenue) ORDER BY s_suppkey""",
    # 16: parts and suppliers
    """SELECT p_brand, p_type, p_size, uniqExact(ps_suppkey) AS suppliers FROM partsupp JOIN part ON p_partkey = ps_partkey
    WHERE p_brand != 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
      AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
    GROUP BY 1, 2, 3 ORDER BY suppliers DESC, 1, 2, 3""",
    # 17: small quantity orders
    """WITH usual AS (SELECT l_partkey AS partkey, sum(l_quantity) AS quantity, count() AS lines FROM lineitem GROUP BY l_partkey)
    SELECT sum(l_extendedprice), count() FROM lineitem JOIN part ON p_partkey = l_partkey JOIN usual ON partkey = l_partkey
    WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity * 5 * lines < quantity""",
    # 18: large volume customers
    """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
    FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey
    WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
    GROUP BY 1, 2, 3, 4, 5 ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100""",
    # 19: discounted revenue
    """SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem JOIN part ON p_partkey = l_partkey
    WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
      (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5)
      OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10)
      OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15))""",
    # 20: potential part promotion
    """WITH shipped AS (SELECT l_partkey, l_suppkey, sum(l_quantity) AS quantity FROM lineitem
      WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' GROUP BY l_partkey, l_suppkey)
    SELECT s_name, s_address FROM supplier JOIN nation ON s_nationkey = n_nationkey WHERE n_name = 'CANADA' AND s_suppkey IN (
      SELECT ps_suppkey FROM partsupp JOIN shipped ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
      WHERE ps_availqty * 2 > quantity AND ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%'))
    ORDER BY s_name""",
    # 21: suppliers who kept orders waiting: late, and nobody else of the order was
    """WITH by_order AS (SELECT l_orderkey AS orderkey, uniqExact(l_suppkey) AS suppliers,
      uniqExactIf(l_suppkey, l_receiptdate > l_commitdate) AS late FROM lineitem GROUP BY l_orderkey)
    SELECT s_name, count() AS waits FROM supplier JOIN lineitem ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey
    JOIN by_order ON orderkey = l_orderkey JOIN nation ON s_nationkey = n_nationkey
    WHERE o_orderstatus = 'F' AND l_receiptdate > l_commitdate AND suppliers > 1 AND late = 1 AND n_name = 'SAUDI ARABIA'
    GROUP BY s_name ORDER BY waits DESC, s_name LIMIT 100""",
    # 22: global sales opportunity
    """WITH chosen AS (SELECT c_custkey, c_acctbal, substring(c_phone, 1, 2) AS code FROM customer
      WHERE code IN ('13', '31', '23', '29', '30', '18', '17'))
    SELECT code, count(), sum(c_acctbal) FROM chosen
    WHERE c_acctbal > (SELECT sum(c_acctbal) / count() FROM chosen WHERE c_acctbal > 0)
      AND c_custkey NOT IN (SELECT o_custkey FROM orders) GROUP BY code ORDER BY code""",
]


def generate(ctx):
    """Makes the tables as Parquet files; returns their directory."""
    program = ctx.options.get("tpchgen") or os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
    out = os.path.join(ctx.state, "tpch")
    subprocess.run([program, "parquet", "-s", "0.1", "-o", out], check=True, capture_output=True)
    return out


def load(engine, database, policy, data):
    engine.run(f"CREATE DATABASE {database} ENGINE = Atomic", f"USE {database}")
    for table, key in TABLES.items():
        source = f"file('{data}/{table}.parquet', Parquet)"
        engine.run(
            f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY {key} SETTINGS storage_policy = '{policy}', "
            f"allow_nullable_key = 1 EMPTY AS SELECT * FROM {source}",
            f"INSERT INTO {table} SELECT * FROM {source}",
        )


@workload(21)
def tpch_answers_as_on_local_disk(ctx):
    data = generate(ctx)
    engine = ctx.engine()
    answers = {}
    for database, policy in (("on_local", "default"), ("on_volume", "vol")):
        load(engine, database, policy, data)
        answers[database] = [engine.text(query) for query in QUERIES]
    for number, (local, volume) in enumerate(zip(answers["on_local"], answers["on_volume"], strict=True), 1):
        check(f"answer of query {number}", volume, local)
    empty = [number for number, answer in enumerate(answers["on_local"], 1) if not answer.strip()]
    check_true(f"queries without an answer: {empty}", not empty)
    engine.run("DROP DATABASE on_local SYNC", "DROP DATABASE on_volume SYNC")
    engine.close()
