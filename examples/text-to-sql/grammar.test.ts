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
])('%s is not understood, and the answer says what is', (question, reason) => {
  expect(() => planQuestion(question)).toThrow(reason);
  expect(() => planQuestion(question)).toThrow('top <n> <dimension> by <measure>');
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
