"""1.234 may be a thousand or a little more than one: it is read by what the table shows, and never in silence."""

import numpy as np
import pytest

import kfed
from kfed.site import read_columns, read_table

pytestmark = pytest.mark.usefixtures("reading")

AGES = [71, 64, 55, 48, 39]


def table_of(write, costs, *, ages=AGES, separator=";"):
    lines = [f"{age}{separator}{cost}" for age, cost in zip(ages, costs, strict=True)]
    return write("\n".join([f"age{separator}cost", *lines]) + "\n")


def read(path):
    table = read_columns(path, min_cluster_size=1)
    return table.values[:, 1].tolist(), [notice.text for notice in table.notices if notice.code == "thousands"]


@pytest.mark.parametrize("sign", [".", ","])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_hundreds_beside_groups_of_three_digits_are_thousands_and_it_is_said(write, sign, separator):
    costs = [cost.replace(".", sign) for cost in ("669", "5.259", "7.729", "", "312")]
    values, (text,) = read(table_of(write, costs, separator=separator))
    np.testing.assert_array_equal(values, [669, 5259, 7729, np.nan, 312])
    assert "column 'cost' are taken to separate thousands" in text
    assert "5" not in text


def test_a_zero_at_the_end_tells_thousands_up_to_a_million(write):
    values, texts = read(table_of(write, ["669", "5.259", "712.500", "-1.001", "3"]))
    assert (values, len(texts)) == ([669, 5259, 712500, -1001, 3], 1)


def test_two_separators_are_thousands_for_certain(write):
    assert read(table_of(write, ["1.756.461", "690.506", "12", "n/a", "1.001"]))[0][:3] == [1756461, 690506, 12]
    assert read(table_of(write, ["1.756.461", "690.506", "12", "7", "1.001"]))[1] == []
    assert read(table_of(write, ["1.756.461", "690.506", "12", "7", "1.001"], separator=","))[0][1] == 690506


@pytest.mark.parametrize(
    ("costs", "separator"),
    [
        (["6.027", "7.885", "8.971", "1.250", "2.001"], ";"),
        (["4,396", "2,975", "2,450", "1,250", "2,001"], "\t"),
        (["512.375", "300", "417.125", "220.875", "101.625"], ";"),
        (["669", "5.259", "7.729", "8.970", "312"], ","),
    ],
    ids=["three decimals", "commas", "one whole number among decimals", "between commas"],
)
def test_what_may_be_either_is_read_as_decimals_and_said(write, costs, separator):
    values, (text,) = read(table_of(write, costs, separator=separator))
    assert values == [float(cost.replace(",", ".")) for cost in costs]
    assert "may separate thousands" in text


@pytest.mark.parametrize(
    "costs",
    [
        ["0.627", "7.885", "8.971", "1.250", "2.001"],
        ["6.027", "7.885", "8.97", "1.25", "612"],
        ["1612.027", "7.885", "8.971", "1.250", "612"],
        ["1", "2", "3", "4", "612"],
    ],
    ids=["below one", "fewer decimals", "a thousand and decimals", "whole"],
)
def test_decimals_that_can_be_nothing_else_are_read_without_a_word(write, costs):
    assert read(table_of(write, costs)) == (list(map(float, costs)), [])


def test_decimals_of_other_columns_tell_what_the_other_sign_is(write):
    ages = ["71.5", "64.25", "55.0", "48", "39"]
    values, (text,) = read(table_of(write, ["3,064", "6,937", "4,032", "1,250", "2,001"], ages=ages))
    assert (values[0], "separate thousands" in text) == (3064, True)
    ages = [age.replace(".", ",") for age in ages]
    assert read(table_of(write, ["3.064", "669", "4.032", "1.250,5", "2.001"], ages=ages)) == (
        [3064, 669, 4032, 1250.5, 2001],
        [],
    )


def test_points_that_cannot_be_thousands_stay_decimals_beside_decimal_commas(write):
    ages = ["71,5", "64,25", "55,0", "48", "39"]
    assert read(table_of(write, ["1.041", "0.954", "1.292", "", "1.033"], ages=ages))[0][:3] == [1.041, 0.954, 1.292]


def test_thousands_that_come_late_in_a_large_file_are_seen(write):
    costs = [*(str(100 + i % 800) for i in range(12_000)), "5.259", "8.970"]
    values, texts = read(table_of(write, costs, ages=[20 + i % 60 for i in range(len(costs))]))
    assert (values[-2:], len(texts)) == ([5259, 8970], 1)


def test_a_table_of_plain_numbers_says_it_too(write):
    table = read_table(table_of(write, ["669", "5.259", "7.729", "8.970", "312"]))
    assert table.values[1, 1] == 5259
    assert [notice.code for notice in table.notices] == ["thousands"]


@pytest.mark.parametrize(("number", "words"), [("3,625", "thousands or decimals"), ("36,5", "holds a decimal comma")])
def test_a_quoted_comma_between_commas_that_may_be_either_is_not_called_a_decimal_comma(write, number, words):
    text = "age,cost\n" + "".join(f"{i % 60},{i % 7}00\n" for i in range(50)) + f'30,"{number}"\n'
    with pytest.raises(kfed.InvalidInputError, match=rf"{words} in line 52") as caught:
        read_columns(write(text))
    assert ("Write 1,234 as 1234 or as 1.234" in str(caught.value)) == (number == "3,625")
    assert number not in str(caught.value)


def test_a_column_of_quoted_commas_is_said_to_hold_thousands_or_decimals(write):
    path = write("age,cost\n" + "".join(f'{i % 60},"{1 + i % 4},625"\n' for i in range(50)))
    notices = {notice.code: notice.text for notice in read_columns(path).notices}
    assert "a comma that separates thousands or decimals (first in line 2)" in notices["numbers as text"]
    with pytest.raises(kfed.InvalidInputError, match="thousands or decimals in line 2"):
        read_columns(path, kinds={"cost": "number"})


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("", ["5,13", "4,9", "-0,25"]),
        ("", ["5,131", "4,905"]),
        ("300", ["1,438", "2,001"]),
        ("300", ["150,25", "1,438"]),
        ("", ["5.131", "4.905"]),
        ("300", ["1.438", "669"]),
        ("1234", ["1.438", "0.5"]),
        ("<5", ["1.234.567", "12"]),
    ],
)
def test_cells_are_read_alike_and_notices_are_the_same_wherever_in_the_file_they_are(write, early, late):
    costs = [early] * 9_000 + late
    ages = [20 + i * i % 71 for i in range(len(costs))]
    far, near = read(table_of(write, costs, ages=ages)), read(table_of(write, costs[::-1], ages=ages))
    np.testing.assert_array_equal(far[0], near[0][::-1])
    assert far[1] == near[1]
    assert not np.isnan(far[0][-1])


def test_points_that_arrow_takes_for_decimals_are_read_again_where_another_column_has_decimal_commas_far_below(write):
    salaries = [f"{20 + i * i % 71}.000" for i in range(9_003)]
    table = read_columns(table_of(write, [""] * 9_000 + ["5,13", "4,9", "-0,25"], ages=salaries))
    ages = table.values[:, table.columns.index("age")]
    assert ages.min() >= 20_000


def test_a_word_that_comes_late_in_an_empty_column_is_said(write):
    words = [""] * 9_000 + ["none"] * 50
    path = table_of(write, words, ages=[20 + i * i % 71 for i in range(len(words))])
    notices = {notice.code: notice.text for notice in read_columns(path).notices}
    assert "'none'" in notices["taken as missing"]
