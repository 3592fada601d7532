"""What is missing where pods find no room, in both languages: in English as the decision says it.
Pure."""

from __future__ import annotations

from scaler.decide.explain import amount_in_words, where_in_words
from scaler.decide.nodes import PODS
from scaler.decide.room.shortage import Shortage
from scaler.reasons.said import Said


def in_both(shortage: Shortage) -> Said:
    return Said(str(shortage), _in_chinese(shortage))


def _in_chinese(shortage: Shortage) -> str:
    """The same parts in the same order as `str(shortage)`."""
    request = shortage.request
    requests = dict(request.requests)
    amount = amount_in_words(shortage.resource, requests.get(shortage.resource, 0))
    amount = amount.replace(" free ", " 空闲 ", 1) + where_in_words(request.where)
    doubt = "；未尝试所有放置方案" if shortage.undecided else ""
    away = f"；{shortage.away}" if shortage.away else ""
    places = _places(shortage)
    if shortage.together:
        return f"需要{places}（{amount}，还需要其他资源），没有能容纳全部的放置方案{doubt}{away}"
    if shortage.unoffered:
        return f"需要{places}（{amount}），没有节点提供该资源{doubt}{away}"
    there = "总共" if shortage.in_all else "空闲"
    found = f"需要{places}，{there} {shortage.there}{away}"
    if shortage.resource == PODS:
        return f"{found}{doubt}"
    return f"{found}；{_each(shortage)} {amount}{doubt}"


def _each(shortage: Shortage) -> str:
    request = shortage.request
    if request.block and not request.tier:
        return "每个节点"
    return "各需" if shortage.wanted > 1 or request.block else "需有"


def _places(shortage: Shortage) -> str:
    block = shortage.request.block
    if block and shortage.request.tier:
        return f" {shortage.wanted} 个块（每块 {block} 个 Pod，位于同一个 HyperNode）"
    if block:
        return f" {shortage.wanted} 个块（每块为同一个超节点的 {block} 个节点）"
    if shortage.shared or shortage.resource == PODS:
        return f"可容纳 {shortage.wanted} 个 Pod 的资源"
    return f" {shortage.wanted} 个节点"
