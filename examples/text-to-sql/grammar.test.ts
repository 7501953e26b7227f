import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sampleSql } from './data.ts';
import { GRAMMAR, NotUnderstood, planQuestion } from './grammar.ts';

const flat = (question: string): string => planQuestion(question).sql.replaceAll('\n', ' ');

test.each([
  [
    'Revenue by city in 2025?',
    'select city, sum(revenue) as revenue from sales where year = 2025 group by city order by revenue desc, city',
  ],
  [
    'top 3 products by revenue in Lyon',
    "select product, sum(revenue) as revenue from sales where city = 'Lyon' group by product order by revenue desc, product limit 3",
  ],
  [
    'How many orders were returned?',
    "select count(*) as orders from sales where status = 'returned'",
  ],
  [
    'units of the desk lamp per month',
    "select month, sum(units) as units from sales where product = 'Desk lamp' group by month order by month",
  ],
  [
    'average order in Berlin and Porto for business customers in March 2025',
    "select round(avg(revenue), 2) as average_order from sales where city in ('Berlin', 'Porto') and segment = 'business' and month = '2025-03'",
  ],
  [
    'list 10 returned orders in 2024',
    "select order_id, ordered_on, customer, city, product, units, revenue, status from sales where status = 'returned' and year = 2024 order by ordered_on desc, order_id desc limit 10",
  ],
  ['top customers by orders', /group by customer order by orders desc, customer limit 5$/],
  ['list 1000 orders', /^select order_id, .* from sales order by .* limit 1000$/],
  ['list 2024 orders', /where year = 2024 .* limit 20$/],
  ['top-20 products by revenue', /group by product .* limit 20$/],
  ['revenue in 2024-03', "select sum(revenue) as revenue from sales where month = '2024-03'"],
  ['revenue of returned orders', /^select sum\(revenue\) .* where status = 'returned'$/],
  ['average revenue by city', /^select city, round\(avg\(revenue\), 2\) as average_order/],
  ['sql select 1;', 'select 1;'],
])('%s', (question, sql) => {
  expect(flat(question)).toMatch(sql);
});

test.each([
  ['how tall is the moon', 'I do not know "tall"'],
  ['revenue by height', 'I cannot group by "height"'],
  ['Berlin in 2025', 'I miss what to measure'],
  ['', 'I miss what to measure'],
  ["revenue in Berlin'; drop table orders; --", 'I do not know "drop"'],
  ['revenue by constructor', 'I cannot group by "constructor"'],
  ['constructor revenue', 'I do not know "constructor"'],
  ['revenue by', 'I miss what to group by'],
  ['top -3 products by revenue', 'I do not know "-3"'],
  ['top 3.5 products by revenue', 'I do not know "3.5"'],
  ['list 0 orders', 'I do not know "0"'],
  ['revenue in 1 March 2024', 'I do not know "1"'],
  ['revenue in 1000', 'I do not know "1000"'],
  ['top 3 by revenue', 'I miss what to rank'],
  ['revenue by city by month', 'I can group by one thing, not by city and month'],
  ['revenue and orders by city', 'I can measure one thing, not revenue and orders'],
  ['average units by city', 'I can measure one thing, not average and units'],
  ['top 5 orders by revenue', 'I can measure one thing, not orders and revenue'],
  ['list orders by city', 'A list has every order by itself'],
  ['list revenue', 'A list has every order by itself'],
])('%s is not understood, and the answer says what is', (question, reason) => {
  expect(() => planQuestion(question)).toThrow(reason);
  expect(() => planQuestion(question)).toThrow('top <n> <dimension> by <measure>');
});

test('an absurdly long word is named by its beginning', () => {
  expect(() => planQuestion('a'.repeat(100_000))).toThrow(`I do not know "${'a'.repeat(40)}…"`);
});

test('whatever is asked, the SQL holds no word of the question but known ones', () => {
  const known = /^[a-z0-9_ ,.()=*\-\n]*$/;
  fc.assert(
    fc.property(fc.string(), fc.constantFrom('revenue ', 'list ', 'top 3 city '), (text, start) => {
      try {
        const { sql } = planQuestion(`${start}${text}`);
        expect(sql.replaceAll(/'[A-Za-z0-9 -]+'/g, '')).toMatch(known);
      } catch (error) {
        expect(error).toBeInstanceOf(NotUnderstood);
      }
    }),
  );
});

test('the sample data is the same every time, and the README has the grammar', () => {
  expect(sampleSql()).toBe(sampleSql());
  const readme = readFileSync(new URL('./README.md', import.meta.url), 'utf8');
  for (const line of GRAMMAR.split('\n').slice(1)) expect(readme).toContain(line.trim());
});
